# command: node queue.js
# where: middle
# error: ERR_UNHANDLED_REJECTION
cat > queue.js <<'JS'
process.on('exit', () => {
  for (let n = 0; n < 45; n++) console.log(`drain: job ${n} put back into the queue blue, attempt ${n % 3}, lease returned`);
});
for (let n = 0; n < 45; n++) console.log(`start: job ${n} taken from the queue blue, lease of 30 s, payload ${n * 17} bytes`);
Promise.reject('rate of the bank is not known');
JS
node queue.js

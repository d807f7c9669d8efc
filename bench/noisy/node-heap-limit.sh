# command: node --trace-gc build.js
# where: end
# error: FATAL ERROR: .*JavaScript heap out of memory
cat > build.js <<'JS'
const kept = [];
for (let n = 0; ; n++) {
  kept.push(new Array(400).fill(n + 0.5).map(String));
  if (n % 900 === 0) console.log(`bundled chunk ${n}, ${kept.length} modules, tree shaking on, source map written`);
}
JS
ulimit -c 0
node --max-old-space-size=90 --trace-gc build.js

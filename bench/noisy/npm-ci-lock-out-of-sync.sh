# command: npm ci --loglevel silly
# where: end
# error: can only install packages when your package.json
mkdir -p pkgs
for n in $(seq 1 45); do mkdir pkgs/part-$n; echo "{\"name\": \"part-$n\", \"version\": \"1.0.$n\"}" > pkgs/part-$n/package.json; done
node -e '
  const parts = {};
  for (let n = 1; n <= 45; n++) parts["part-" + n] = "file:pkgs/part-" + n;
  const fs = require("fs");
  fs.writeFileSync("next.json", JSON.stringify({ name: "shop", version: "1.0.0", dependencies: parts }));
  delete parts["part-7"];
  fs.writeFileSync("package.json", JSON.stringify({ name: "shop", version: "1.0.0", dependencies: parts }));
'
npm install --offline --no-audit --no-fund --loglevel silly
mv next.json package.json
npm ci --offline --no-audit --no-fund --loglevel silly

# command: NODE_DEBUG=module node src/server.js
# where: end
# error: ^SyntaxError: Cannot use import
. "$PARTS/node_app.sh"
echo '{"name": "shop", "version": "1.0.0", "type": "commonjs"}' > package.json
{ for m in $(ls src/routes); do echo "require('./routes/$m');"; done; echo "require('./late');"; } > src/server.js
printf "import fs from 'fs';\nfs.statSync('.');\n" > src/late.js
NODE_DEBUG=module node src/server.js

# command: make -j1 all
# where: end
# error: multiple definition of
. "$PARTS/c_project.sh"
printf 'int verbose_level = 0;\n' > include/level.h
printf '#include "app.h"\n#include "level.h"\nint log_init(int size) { return size + verbose_level; }\n' > src/log.c
printf '#include "app.h"\n#include "level.h"\nint main(void) { return log_init(verbose_level); }\n' > src/main.c
make

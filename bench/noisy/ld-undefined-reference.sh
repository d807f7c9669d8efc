# command: make
# where: end
# error: undefined reference to
. "$PARTS/c_project.sh"
printf '#include "app.h"\nint store_flush(int fd);\nint main(void)\n{\n    return store_flush(log_init(1));\n}\n' > src/main.c
make

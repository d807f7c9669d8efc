# command: make CFLAGS='-O2 -Wall -Wextra -Werror=implicit-function-declaration -Iinclude'
# where: middle
# error: error: implicit declaration of function
. "$PARTS/c_project.sh"
printf '#include "app.h"\nint main(void)\n{\n    return (int) usleep(10);\n}\n' > src/main.c
make -k CFLAGS='-O2 -Wall -Wextra -g -fPIC -fstack-protector-strong -Wno-unused-variable -Werror=implicit-function-declaration -Iinclude'

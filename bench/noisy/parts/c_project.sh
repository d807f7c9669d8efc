mkdir -p src include
for m in arena buffer cache codec config dict event fiber frame graph hash heap index json lexer list log map math net \
  parse pool queue range regex ring route scan slab sort stack store table timer token trie tree url utf8 vector; do
  printf '#include "app.h"\nint %s_init(int size)\n{\n    int unused_%s;\n    return size + 1;\n}\n' $m $m > src/$m.c
done
printf '#ifndef APP_H\n#define APP_H\n#include <stdio.h>\n#include <string.h>\nint log_init(int size);\n#endif\n' > include/app.h
cat > Makefile <<'MK'
CFLAGS = -O2 -g -std=c11 -Wall -Wno-unused-variable -fno-omit-frame-pointer -fstack-protector-strong -fPIC \
  -D_FORTIFY_SOURCE=2 -DNDEBUG -DAPP_VERSION=3 -Iinclude
SRC = $(sort $(wildcard src/*.c))
OBJ = $(SRC:.c=.o)
all: app
app: $(OBJ)
	$(CC) -o $@ $^ $(LDLIBS)
%.o: %.c
	$(CC) $(CFLAGS) -c -o $@ $<
MK

# command: make --debug=v
# where: middle
# error: No rule to make target
. "$PARTS/c_project.sh"
printf 'src/lexer.o: include/version.h\n' >> Makefile
printf 'int main(void) { return 0; }\n' > src/main.c
make -k --debug=b

# command: python3 setup.py -v build
# where: end
# error: fatal error: .*No such file
mkdir -p fastgeo/parts
for n in $(seq 1 70); do echo "SCALE = $n" > fastgeo/parts/projection_$n.py; done
touch fastgeo/__init__.py fastgeo/parts/__init__.py
printf '#include <proj_internal.h>\nint main_shape(void) { return 0; }\n' > fastgeo/shape.c
cat > setup.py <<'PY'
from setuptools import Extension, setup

setup(name="fastgeo", version="0.4", packages=["fastgeo", "fastgeo.parts"],
      ext_modules=[Extension("fastgeo.shape", ["fastgeo/shape.c"])])
PY
/usr/bin/python3 setup.py -v build

# command: cmake -S . -B build --log-level=VERBOSE; cat build/CMakeFiles/CMakeOutput.log
# where: start
# error: Could not find a package configuration
cat > CMakeLists.txt <<'CM'
cmake_minimum_required(VERSION 3.20)
project(viewer C)
find_package(Lattice REQUIRED CONFIG)
find_package(Threads REQUIRED)
CM
cmake -S . -B build --log-level=VERBOSE
cat build/CMakeFiles/CMakeOutput.log

export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
mkdir wheels
cat > wheel.py <<'PY'
import sys, zipfile
def wheel(name, version, requires=(), python=""):
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    meta += "".join(f"Requires-Dist: {each}\n" for each in requires)
    meta += f"Requires-Python: {python}\n" if python else ""
    with zipfile.ZipFile(f"wheels/{name}-{version}-py3-none-any.whl", "w") as z:
        z.writestr(f"{name}/__init__.py", f"VERSION = '{version}'\n")
        z.writestr(f"{info}/METADATA", meta)
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")
PY

#!/usr/bin/env bash
# The layer of windlass/server's own packages without a container engine: the wheels of the last commit, compiled by a
# Python of the card's machine's version, at the image's paths. What the image has beside them, such as the list of its
# contents, is left out.
# Usage: layer.sh PYTHON OUT_FOLDER     writes OUT_FOLDER/server.tar.gz and server.env.json; needs a C++ compiler
set -euo pipefail
python=$1; mkdir -p "$2"; out=$(cd "$2" && pwd); root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
"$python" -c 'import sys; sys.exit("layer.sh: Python 3.12 or later is needed") if sys.version_info < (3, 12) else None'
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$root/images/build.lock"
mkdir "$work/source" && git -C "$root" archive HEAD base sizing server | tar -x -C "$work/source"
(cd "$work/source" && PATH="$work/build/bin:$PATH" "$work/build/bin/pip" wheel --quiet --no-index --no-deps \
  --no-build-isolation --wheel-dir "$work/wheels" ./base ./sizing ./server ./server/lookahead)
"$python" -m venv --without-pip "$work/opt/windlass"
"$work/build/bin/pip" --python "$work/opt/windlass/bin/python" install --quiet --no-index --no-deps --no-compile "$work"/wheels/*.whl
site=$(echo "$work"/opt/windlass/lib/python3*/site-packages)
PYTHONPATH=$site "$python" -c 'import sys, windlass.launch.hook as h; open(sys.argv[1], "w").write(h.PTH + "\n")' "$site/windlass.pth"
find "$site" -name __pycache__ -type d -prune -exec rm -rf {} +
rm -rf "$work"/opt/windlass/{include,lib64} "$work"/opt/windlass/bin/{python*,[aA]ctivate*}
sed -i "1s|^#!.*|#!/opt/windlass/bin/python3|" "$work"/opt/windlass/bin/*
tar -C "$work" --exclude pyvenv.cfg -czf "$out/server.tar.gz" opt
"$python" - "$root/images/server/Dockerfile" > "$out/server.env.json" <<'PY'
import json, re, sys
text = open(sys.argv[1]).read()
found = re.findall(r"^ENV ((?:[^\n]*\\\n)*[^\n]*)", text, re.M)[-1].replace("\\\n", " ")
print(json.dumps(dict(word.replace('"', "").split("=", 1) for word in found.split()), indent=1))
PY
ls -l "$out"

#!/usr/bin/env bash
# Puts the layer of windlass/server's own packages, exactly as it was built, onto a machine without Docker: at the paths
# that it has in the image, over an engine in a folder and the machine's own torch and Python.
# Usage: setup.sh LAYER.tar.gz ENGINE_FOLDER     makes /opt/windlass and /cache; needs root
set -euo pipefail
layer=$1; engine=$2; home=/opt/windlass
tar -xzf "$layer" -C /
machine=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
python3 -m venv --without-pip "$home"
own=$(cd "$home"/lib/python3*/site-packages/windlass/.. && pwd)
site=$("$home/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The layer is a folder of packages whose own .pth file must be read; the engine wins over what the machine has.
# A layer put together by hand may have its packages in the environment's own folder; to add that again never ends.
{ [ "$own" -ef "$site" ] || echo "import site; site.addsitedir('$own')"; echo "$engine"; echo "import site; site.addsitedir('$machine')"; } > "$site/layer.pth"
mkdir -p /cache /data
# Images have compiled files. Without them, where the machine's Python writes none, a start took up to 90 s longer.
env -u PYTHONDONTWRITEBYTECODE "$home/bin/python3" -m compileall -q -j 0 "$engine" "$own" "$machine" > /dev/null || true
"$home/bin/windlass" version
"$home/bin/python3" -c 'import sys, windlass, windlass_lookahead._core as core, vllm, torch; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, vLLM {vllm.__version__}, {windlass.__file__}, {core.__file__}")'

#!/usr/bin/env bash
# Behaviour: gguf, the Python package of the GGUF format, writes a list of lists into a file's metadata as the format has it,
#   an array of arrays, and reads it back as one flat list: [[1, 2], [3]] becomes [1, 2, 3]. An empty list is not written
#   at all: its key is missing in the file. Nothing is raised, and nothing is printed.
# Expected: the value that was written, or an error. The format's specification allows arrays of arrays, and gives an array
#   a length without a smallest one.
# Why users care: converters and editors of model files read all keys with this package and write them into the next file.
#   Such a copy loses which layer a value belonged to, and loses keys; a reader that takes a missing key for its default
#   then does something else than with an empty list.
# Seen with: gguf 0.19.0.
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.0 numpy==2.3.5
cat > "$work/look.py" <<'PY'
import importlib.metadata
import pathlib
import struct
import sys

from gguf import GGUFReader, GGUFValueType, GGUFWriter

VALUES = {"some.numbers": [1, 2, 3], "some.groups": [[1, 2], [3]], "some.nothing": []}
ARRAY, INT32 = int(GGUFValueType.ARRAY), int(GGUFValueType.INT32)
GROUPS = struct.pack("<IQ", ARRAY, 2) + struct.pack("<IQii", INT32, 2, 1, 2) + struct.pack("<IQi", INT32, 1, 3)

path = pathlib.Path(sys.argv[1])
writer = GGUFWriter(path, "llama")
for key, value in VALUES.items():
    writer.add_array(key, value)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.close()

print(f"gguf {importlib.metadata.version('gguf')}")
print(f"  the file has an array of 2 arrays: {GROUPS in path.read_bytes()}")
fields = GGUFReader(path).fields
back = {key: fields[key].contents() if key in fields else "no such key" for key in VALUES}
for key, value in VALUES.items():
    print(f"  {key}: written {value}, read {back[key]}")
same = list(back.values()) == [[1, 2, 3], [1, 2, 3], "no such key"]
sys.exit(0 if same and GROUPS in path.read_bytes() else 1)
PY
"$work/venv/bin/python" "$work/look.py" "$work/lists.gguf" || { echo "changed: lists come back in another way"; exit 1; }

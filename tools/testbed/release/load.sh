#!/bin/bash
# Loads this bundle into a registry and writes the charts' values that name the registry and the digests.
#   ./load.sh registry.example.com/team                 the registry asks for TLS; log in first: tools/crane auth login
#   ./load.sh --plain-http 10.0.0.7:5000/windlass       a registry without TLS
# Needs bash, cat, sed, find, sort, comm and sha256sum; no network but the registry. What was loaded before is not sent again.
set -euo pipefail
cd "$(dirname "$0")"
fail() { echo "load.sh: $1" >&2; exit 1; }

insecure=() plain=()
if [ "${1:-}" = --plain-http ]; then insecure=(--insecure) plain=(--plain-http); shift; fi
[ $# = 1 ] || fail "give the registry and a path in it, as in registry.example.com/team"
registry=${1%/}
[[ $registry != *://* ]] || fail "give the registry without a scheme, as in registry.example.com/team"

echo "▸ checking every file of the bundle"
sha256sum --quiet --check SHA256SUMS || fail "a file is not the released one; copy the bundle again"

# A layout of an image has a link to the blobs of all.
found=$(find charts values images tools ! -type d ! -path 'images/*/blobs' | sort)
named=$(sed 's/^[^ ]* [ *]//' SHA256SUMS | grep -E '^(charts|values|images|tools)/' | sort)
[ "$found" = "$named" ] || fail "there are files that SHA256SUMS does not name; unpack the bundle into an empty folder: $(comm -23 <(echo "$found") <(echo "$named") | head -3 | cat -v | tr '\n' ' ')"

mkdir -p site
while read -r name repository tag digest; do
  echo "▸ $registry/$repository:$tag"
  tools/crane push "${insecure[@]}" "images/$name" "$registry/$repository:$tag" >/dev/null 2> >(cat -v >&2) ||
    fail "the registry did not take the image $repository: see above; a registry that asks who you are wants tools/crane auth login first"
  stored=$(tools/crane digest "${insecure[@]}" "$registry/$repository:$tag" 2> >(cat -v >&2) | cat -v) ||
    fail "the registry does not give the image $repository back: see above"
  [ "$stored" = "$digest" ] || fail "the registry holds $stored where $digest was sent: it rewrites images; switch that off"
done < images.txt

: > site/charts.txt
for package in charts/*.tgz; do
  name=$(basename "$package" | sed 's/-[0-9][0-9.a-z]*\.tgz$//')
  echo "▸ $registry/charts/$name"
  answer=$(tools/helm push "$package" "oci://$registry/charts" "${plain[@]}" 2>&1 | cat -v) ||
    fail "the registry did not take the chart $name: $answer"
  digest=$(sed -n 's/^Digest: //p' <<< "$answer")
  [ -n "$digest" ] || fail "helm told no digest of the chart $name: $answer"
  echo "$name oci://$registry/charts/$name@$digest" >> site/charts.txt
  { printf 'global:\n  repository: %s\n' "$registry"; cat "values/$name.yaml"; } > "site/$name.yaml"
done

echo "
Loaded. Install from here, with the public key of whoever issues your licenses:"
while read -r name chart; do
  namespace=windlass-system flags=
  [ "$name" = windlass ] || { namespace=kube-system flags=" --set-file 'publicKeys[0]=public.pem'"; }
  echo "  tools/helm upgrade --install $name $chart -n $namespace --create-namespace -f site/$name.yaml$flags ${plain[*]}"
done < <(sort -r site/charts.txt)

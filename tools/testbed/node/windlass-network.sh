#!/bin/bash
# The pod network of one node, from /etc/windlass/network: lines "self POD_CIDR CLUSTER_CIDR" and "peer POD_CIDR ADDRESS".
# Plain routes between nodes of one layer-2 network; run when the cluster is made and at every boot of the node.
set -eu
file=/etc/windlass/network
[ -f "$file" ] || exit 0
while read -r word cidr value; do
  case $word in
    self)
      mkdir -p /etc/cni/net.d
      cat > /etc/cni/net.d/.new <<JSON
{"cniVersion": "0.4.0", "name": "windlass", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
   "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "$cidr"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
      mv /etc/cni/net.d/.new /etc/cni/net.d/10-windlass.conflist
      rule=(POSTROUTING -s "$cidr" ! -d "$value" -m addrtype ! --dst-type LOCAL -j MASQUERADE)
      iptables -t nat -C "${rule[@]}" 2>/dev/null || iptables -t nat -A "${rule[@]}"
      ;;
    peer) ip route replace "$cidr" via "$value" ;;
  esac
done < "$file"

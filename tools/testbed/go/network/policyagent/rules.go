package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const table = "windlass_policy"

// view is all that decides a node's rules.
type view struct {
	node       string
	podCIDR    string
	namespaces map[string]labels.Set
	pods       []*core.Pod
	policies   []*networking.NetworkPolicy
}

// direction says which address of a packet is the selected pod's and which is its peer's.
type direction struct {
	chain, near, far string
	nearIsTarget     bool // whether a port's name is looked up in the selected pods, rather than in their peers
}

var (
	ingress = direction{chain: "ingress", near: "ip daddr", far: "ip saddr", nearIsTarget: true}
	egress  = direction{chain: "egress", near: "ip saddr", far: "ip daddr"}
)

// rule is a NetworkPolicyIngressRule or a NetworkPolicyEgressRule.
type rule struct {
	ports []networking.NetworkPolicyPort
	peers []networking.NetworkPolicyPeer
}

// ruleset returns the input of `nft -f`: the whole table, replaced in one transaction.
func ruleset(v view) (string, error) {
	v.pods = slices.DeleteFunc(slices.Clone(v.pods), func(pod *core.Pod) bool { return address(pod) == "" })
	local := slices.DeleteFunc(slices.Clone(v.pods), func(pod *core.Pod) bool { return pod.Spec.NodeName != v.node })
	isolated := map[string][]*core.Pod{}
	lines := map[string][]string{}
	for _, policy := range v.policies {
		selected, err := matching(local, policy.Namespace, &policy.Spec.PodSelector)
		if err != nil {
			return "", err
		}
		for way, rules := range directions(policy) {
			isolated[way.chain] = append(isolated[way.chain], selected...)
			for _, one := range rules {
				more, err := v.lines(way, policy.Namespace, selected, one)
				if err != nil {
					return "", err
				}
				lines[way.chain] = append(lines[way.chain], more...)
			}
		}
	}
	return v.text(local, isolated, lines), nil
}

func directions(policy *networking.NetworkPolicy) map[direction][]rule {
	found := map[direction][]rule{}
	if slices.Contains(policy.Spec.PolicyTypes, networking.PolicyTypeIngress) {
		found[ingress] = nil
		for _, row := range policy.Spec.Ingress {
			found[ingress] = append(found[ingress], rule{row.Ports, row.From})
		}
	}
	if slices.Contains(policy.Spec.PolicyTypes, networking.PolicyTypeEgress) {
		found[egress] = nil
		for _, row := range policy.Spec.Egress {
			found[egress] = append(found[egress], rule{row.Ports, row.To})
		}
	}
	return found
}

// lines are the nftables rules that let through what one rule of a policy allows.
func (v view) lines(way direction, namespace string, selected []*core.Pod, one rule) ([]string, error) {
	pods, blocks, err := v.peers(namespace, one.peers)
	if err != nil || len(selected) == 0 {
		return nil, err
	}
	near := way.near + " " + set(addresses(selected))
	far := farMatches(way, one, pods, blocks)
	if len(one.ports) == 0 {
		return product(near, far, ""), nil
	}
	var found []string
	for _, port := range one.ports {
		if port.Port == nil || port.Port.Type == intstr.Int {
			found = append(found, product(near, far, portMatch(port))...)
		} else if way.nearIsTarget {
			for number, bearers := range named(selected, port) {
				found = append(found, product(way.near+" "+set(bearers), far, numberMatch(port, number))...)
			}
		} else {
			if len(one.peers) == 0 {
				pods = v.pods
			}
			for number, bearers := range named(pods, port) {
				found = append(found, product(near, []string{way.far + " " + set(bearers)}, numberMatch(port, number))...)
			}
		}
	}
	return found, nil
}

// farMatches are the ways to be a peer of a rule; a rule that names no peers is for everybody.
func farMatches(way direction, one rule, pods []*core.Pod, blocks []networking.IPBlock) []string {
	if len(one.peers) == 0 {
		return []string{""}
	}
	var far []string
	if len(pods) > 0 {
		far = append(far, way.far+" "+set(addresses(pods)))
	}
	for _, block := range blocks {
		far = append(far, blockMatch(way.far, block))
	}
	return far
}

// peers are the pods and the blocks of addresses that a rule names.
func (v view) peers(namespace string, rows []networking.NetworkPolicyPeer) ([]*core.Pod, []networking.IPBlock, error) {
	var pods []*core.Pod
	var blocks []networking.IPBlock
	for _, row := range rows {
		if row.IPBlock != nil {
			if prefix, err := netip.ParsePrefix(row.IPBlock.CIDR); err == nil && prefix.Addr().Is4() {
				blocks = append(blocks, *row.IPBlock)
			}
			continue
		}
		names := []string{namespace}
		if row.NamespaceSelector != nil {
			selector, err := meta.LabelSelectorAsSelector(row.NamespaceSelector)
			if err != nil {
				return nil, nil, err
			}
			names = slices.DeleteFunc(slices.Sorted(maps.Keys(v.namespaces)),
				func(name string) bool { return !selector.Matches(v.namespaces[name]) })
		}
		of := row.PodSelector
		if of == nil {
			of = &meta.LabelSelector{}
		}
		for _, name := range names {
			found, err := matching(v.pods, name, of)
			if err != nil {
				return nil, nil, err
			}
			pods = append(pods, found...)
		}
	}
	return pods, blocks, nil
}

func matching(pods []*core.Pod, namespace string, of *meta.LabelSelector) ([]*core.Pod, error) {
	selector, err := meta.LabelSelectorAsSelector(of)
	if err != nil {
		return nil, fmt.Errorf("a selector in namespace %s cannot be read: %w", namespace, err)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *core.Pod) bool {
		return pod.Namespace != namespace || !selector.Matches(labels.Set(pod.Labels))
	}), nil
}

// address is a pod's own IPv4 address; a pod of the node's network has none, nor has one that has ended.
func address(pod *core.Pod) string {
	if pod.Spec.HostNetwork || pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		return ""
	}
	if parsed, err := netip.ParseAddr(pod.Status.PodIP); err != nil || !parsed.Is4() {
		return ""
	}
	return pod.Status.PodIP
}

func addresses(pods []*core.Pod) []string {
	var found []string
	for _, pod := range pods {
		found = append(found, address(pod))
	}
	return found
}

func protocol(port networking.NetworkPolicyPort) string {
	if port.Protocol == nil {
		return "tcp"
	}
	return strings.ToLower(string(*port.Protocol))
}

func portMatch(port networking.NetworkPolicyPort) string {
	switch {
	case port.Port == nil:
		return "meta l4proto " + protocol(port)
	case port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d", protocol(port), port.Port.IntVal, *port.EndPort)
	}
	return numberMatch(port, port.Port.IntVal)
}

func numberMatch(port networking.NetworkPolicyPort, number int32) string {
	return fmt.Sprintf("%s dport %d", protocol(port), number)
}

// named returns each number that a port's name has, and the addresses of the pods where it has it.
func named(pods []*core.Pod, wanted networking.NetworkPolicyPort) map[int32][]string {
	found := map[int32][]string{}
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			for _, port := range container.Ports {
				given := strings.ToLower(string(cmp.Or(port.Protocol, core.ProtocolTCP)))
				if port.Name == wanted.Port.StrVal && given == protocol(wanted) {
					found[port.ContainerPort] = append(found[port.ContainerPort], address(pod))
				}
			}
		}
	}
	return found
}

func blockMatch(field string, block networking.IPBlock) string {
	match := field + " " + block.CIDR
	for _, hole := range block.Except {
		match += " " + field + " != " + hole
	}
	return match
}

func product(near string, far []string, port string) []string {
	var found []string
	for _, other := range far {
		found = append(found, strings.Join(strings.Fields(near+" "+other+" "+port+" return"), " "))
	}
	return found
}

func set(rows []string) string {
	return "{ " + strings.Join(unique(rows), ", ") + " }"
}

func unique(rows []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(rows)))
}

// text lays the table out. A packet that both ends' policies let through comes back from both chains.
func (v view) text(local []*core.Pod, isolated map[string][]*core.Pod, lines map[string][]string) string {
	var itself []string
	for _, one := range addresses(local) {
		itself = append(itself, one+" . "+one)
	}
	rows := []string{
		"table ip " + table,
		"delete table ip " + table,
		"table ip " + table + " {",
		namedSet("known", "ipv4_addr", addresses(local)),
		namedSet("itself", "ipv4_addr . ipv4_addr", itself),
		namedSet("isolated_in", "ipv4_addr", addresses(isolated[ingress.chain])),
		namedSet("isolated_out", "ipv4_addr", addresses(isolated[egress.chain])),
	}
	for _, way := range []direction{ingress, egress} {
		rows = append(rows, "chain "+way.chain+" {")
		rows = append(rows, unique(lines[way.chain])...)
		rows = append(rows, "counter drop", "}")
	}
	return strings.Join(append(rows,
		"chain forward {",
		"type filter hook forward priority filter; policy accept;",
		"ct state established,related accept",
		"ip saddr . ip daddr @itself accept",
		"ip daddr "+v.podCIDR+" ip daddr != @known counter drop", // a pod whose labels are not known yet takes nothing
		"ip saddr @isolated_out jump egress",
		"ip daddr @isolated_in jump ingress",
		"}",
		"}",
		""), "\n")
}

func namedSet(name, kind string, rows []string) string {
	elements := ""
	if len(rows) > 0 {
		elements = "elements = " + set(rows) + "; "
	}
	return "set " + name + " { type " + kind + "; " + elements + "}"
}

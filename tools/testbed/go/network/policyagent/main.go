// policyagent enforces NetworkPolicy on one node of the test cluster, whose pods are routed through the node.
//
// It follows pods, namespaces and policies, and keeps one nftables table in the node's forward hook: packets from the
// node itself (the kubelet's probes) are not forwarded, so no policy touches them. IPv4 only, as the cluster is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	gather = 20 * time.Millisecond // changes that come together become one transaction
	again  = 60 * time.Second      // the table is written again, whoever may have removed it
)

// follow starts watches whose changes put a word into the channel, and returns a function that reads the whole view.
func follow(ctx context.Context, client kubernetes.Interface, v view, changed chan<- struct{}) (func() (view, error), error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	tell := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(_, now any) { tell(now) }}
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for kind, done := range factory.WaitForCacheSync(ctx.Done()) {
		if !done {
			return nil, fmt.Errorf("the API server did not list %v", kind)
		}
	}
	return func() (view, error) {
		now := v
		spaces, first := namespaces.Lister().List(labels.Everything())
		now.namespaces = map[string]labels.Set{}
		for _, space := range spaces {
			now.namespaces[space.Name] = space.Labels
		}
		var second, third error
		now.pods, second = pods.Lister().List(labels.Everything())
		now.policies, third = policies.Lister().List(labels.Everything())
		return now, errors.Join(first, second, third)
	}, nil
}

// podCIDR waits until the controller manager has given the node its range.
func podCIDR(ctx context.Context, client kubernetes.Interface, node string) (string, error) {
	for {
		found, err := client.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{})
		if err == nil && found.Spec.PodCIDR != "" {
			return found.Spec.PodCIDR, nil
		}
		log.Printf("node %s has no podCIDR yet (%v)", node, err)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func apply(command []string, text string) error {
	run := exec.Command(command[0], append(command[1:], "-f", "-")...)
	run.Stdin = strings.NewReader(text)
	if said, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s\n%s", strings.Join(command, " "), err, said, text)
	}
	return nil
}

// enforce writes the table whenever it differs, until the context ends.
func enforce(ctx context.Context, read func() (view, error), command []string, changed <-chan struct{}) error {
	last := ""
	tick := time.NewTicker(again)
	for {
		now, err := read()
		if err != nil {
			return err
		}
		text, err := ruleset(now)
		if err != nil {
			return err
		}
		if text != last {
			if err := apply(command, text); err != nil {
				return err
			}
			log.Printf("%d policies, %d pods", len(now.policies), len(now.pods))
			last = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			last = ""
		case <-changed:
			time.Sleep(gather)
		}
	}
}

func live(ctx context.Context, node, kubeconfig string, command []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	cidr, err := podCIDR(ctx, client, node)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	read, err := follow(ctx, client, view{node: node, podCIDR: cidr}, changed)
	if err != nil {
		return err
	}
	return enforce(ctx, read, command, changed)
}

func main() {
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached; empty: as the pod's service account")
	command := flag.String("nft", "nft", "the nft command and its first arguments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := live(ctx, *node, *kubeconfig, strings.Fields(*command)); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

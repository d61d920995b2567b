// Package kubernetes pins the programs that the test bed builds on Kubernetes' libraries, with the replace lines that
// its staging modules need. It is one module, so that each library is compiled once.
//go:build pins

package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kubectl"
)

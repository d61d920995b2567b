// Package keda pins KEDA: its own go.mod holds a replace line, which `go install pkg@version` refuses.
//go:build pins

package keda

import (
	_ "github.com/kedacore/keda/v2/cmd/adapter"
	_ "github.com/kedacore/keda/v2/cmd/operator"
)

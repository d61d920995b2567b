// Package etcd pins etcd's server: its own go.mod holds replace lines, which `go install pkg@version` refuses.
//go:build pins

package etcd

import _ "go.etcd.io/etcd/server/v3"

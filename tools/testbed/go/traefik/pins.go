// Package traefik pins Traefik: its own go.mod holds replace lines, which `go install pkg@version` refuses.
//go:build pins

package traefik

import _ "github.com/traefik/traefik/v3/cmd/traefik"

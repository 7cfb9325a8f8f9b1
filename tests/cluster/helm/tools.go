//go:build tools

// Package tools pins Helm, which the tests of the chart render and install it with.
package tools

import _ "helm.sh/helm/v4/cmd/helm"

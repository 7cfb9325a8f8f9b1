//go:build tools

// The community's descheduler itself is built from this module, too.
package main

import _ "sigs.k8s.io/descheduler/cmd/descheduler"

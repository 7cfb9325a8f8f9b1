// Command controlplane is every upstream Kubernetes binary that the cluster tests start, in one executable.
//
// The role is the first argument; the rest are the flags of that component, unchanged:
//
//	controlplane apiserver --etcd-servers http://127.0.0.1:2379 …
//
// One binary, since the components share nearly all of their code: linking it five times would cost five times the
// build and 600 MB. Nothing in here is ours but the switch.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}

var roles = map[string]func(){
	"etcd":               func() { etcdmain.Main(os.Args) },
	"apiserver":          command(apiserver.NewAPIServerCommand),
	"controller-manager": command(controllermanager.NewControllerManagerCommand),
	"scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":            command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func main() {
	if len(os.Args) > 1 {
		if run, known := roles[os.Args[1]]; known {
			// The components parse os.Args themselves and expect their flags from index 1 on.
			os.Args = append([]string{os.Args[1]}, os.Args[2:]...)
			run()
			return
		}
	}
	names := make([]string, 0, len(roles))
	for name := range roles {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane %s FLAGS\n", strings.Join(names, "|"))
	os.Exit(2)
}

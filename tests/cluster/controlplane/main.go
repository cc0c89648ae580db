// Command controlplane is a whole Kubernetes in one file, for the tests: each sub-command is the
// published program of that name, called with the arguments that follow.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		refuse("name a program")
	}
	name := os.Args[1]
	os.Args = append([]string{filepath.Join(filepath.Dir(os.Args[0]), name)}, os.Args[2:]...)
	var command *cobra.Command
	switch name {
	case "version":
		fmt.Println(version.Get().GitVersion)
		return
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "apiserver":
		command = apiserver.NewAPIServerCommand()
	case "controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		command = kubectl.NewDefaultKubectlCommand()
	default:
		refuse("no such program: " + name)
	}
	os.Exit(cli.Run(command))
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, why+
		": etcd, apiserver, controller-manager, scheduler, kubelet, kubectl or version")
	os.Exit(2)
}

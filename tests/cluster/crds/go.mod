module github.com/dra-reserve/dra-reserve/tests/cluster/crds

go 1.26.0

// Only files of these modules are read: none is compiled, and none of their requirements is downloaded.
require (
	github.com/kubeflow/trainer/v2 v2.3.0
	github.com/kubeflow/training-operator v1.8.1
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/kueue v0.19.2
)

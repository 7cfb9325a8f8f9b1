// Command descheduler asks the plugins of the community's descheduler which pods they would evict, for tests that
// compare dra-reserve's plugins with them.
//
// Each line of the input is a question in JSON, each line of the output its answers, in the same order:
//
//	{"now": time, "objects": [Node, Pod, …], "policies": [DeschedulerPolicy], "times": 3}
//	{"evicted": [[[["NAMESPACE/NAME", "PROFILE"]]]], "seconds": [[0.1]]}; or {"error": "…"}
//
// Evictions: policy → time → evictions in order. Seconds: policy → time → those of the processor that the plugins took,
// collection of their garbage included; filling the caches does not count. -cpuprofile FILE profiles all of it.
//
// Profiles, plugins, limits and the evictor are upstream's own, as the binary builds them; an eviction is taken note of,
// and the pod stays in the cache, as it does in a cluster while it terminates. Every policy sees the cluster as it was.
// Upstream walks maps in random order: times says how often each policy is asked.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	nodeutil "sigs.k8s.io/descheduler/pkg/descheduler/node"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"
	"sigs.k8s.io/descheduler/pkg/features"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
	"sigs.k8s.io/descheduler/pkg/framework/profile"
)

const longestQuestion = 1 << 30 // a hundred thousand pods, with room

type question struct {
	Now      metav1.Time       `json:"now"`
	Objects  []json.RawMessage `json:"objects"`
	Policies []json.RawMessage `json:"policies"`
	Times    int               `json:"times"`
}

type eviction [2]string

type answer struct {
	Evicted [][][]eviction `json:"evicted,omitempty"`
	Seconds [][]float64    `json:"seconds,omitempty"`
	Error   string         `json:"error,omitempty"`
}

type cluster struct {
	nodes   []*corev1.Node
	objects []runtime.Object
}

// read decodes the objects, and moves their times from the question's present to that of the plugins.
func read(asked *question) (*cluster, error) {
	read := &cluster{}
	shift := time.Since(asked.Now.Time)
	for _, raw := range asked.Objects {
		object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		switch typed := object.(type) {
		case *corev1.Node:
			read.nodes = append(read.nodes, typed)
		case *corev1.Pod:
			later(&typed.CreationTimestamp, shift)
			later(typed.DeletionTimestamp, shift)
			later(typed.Status.StartTime, shift)
			for i := range typed.Status.Conditions {
				later(&typed.Status.Conditions[i].LastTransitionTime, shift)
			}
		}
		read.objects = append(read.objects, object)
	}
	return read, nil
}

func later(moment *metav1.Time, by time.Duration) {
	if moment != nil && !moment.IsZero() {
		moment.Time = moment.Add(by)
	}
}

// fill puts the objects into the caches; the informers are never started.
func (c *cluster) fill(factory informers.SharedInformerFactory) error {
	core := factory.Core().V1()
	for _, object := range c.objects {
		var informer cache.SharedIndexInformer
		switch object.(type) {
		case *corev1.Node:
			informer = core.Nodes().Informer()
		case *corev1.Pod:
			informer = core.Pods().Informer()
		case *corev1.Namespace:
			informer = core.Namespaces().Informer()
		case *corev1.PersistentVolumeClaim:
			informer = core.PersistentVolumeClaims().Informer()
		case *policyv1.PodDisruptionBudget:
			informer = factory.Policy().V1().PodDisruptionBudgets().Informer()
		case *schedulingv1.PriorityClass:
			informer = factory.Scheduling().V1().PriorityClasses().Informer()
		default:
			return fmt.Errorf("no plugin reads %T", object)
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
	}
	return nil
}

// load reads a policy as the binary does: strict where that is, with defaults, validated.
func load(raw []byte, client *fake.Clientset) (*api.DeschedulerPolicy, error) {
	file, err := os.CreateTemp("", "policy-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(raw); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return descheduler.LoadPolicyConfig(file.Name(), client, pluginregistry.PluginRegistry)
}

// processorTime returns the time of the processor that this process has taken.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// measure calls what a round consists of, one after the other, and returns the time of the processor for it.
func measure(points []func() error) (time.Duration, error) {
	goruntime.GC() // what was allocated before does not count
	begun, err := processorTime()
	if err != nil {
		return 0, err
	}
	for _, point := range points {
		if err := point(); err != nil {
			return 0, err
		}
	}
	ended, err := processorTime()
	return ended - begun, err
}

// run runs one round of a policy and returns what it evicts, in order, and how long its plugins took.
func (c *cluster) run(ctx context.Context, raw []byte) ([]eviction, time.Duration, error) {
	client := fake.NewSimpleClientset(c.objects...)
	evicted, current := []eviction{}, ""
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		pod := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		evicted = append(evicted, eviction{pod.Namespace + "/" + pod.Name, current})
		return true, nil, nil
	})
	policy, err := load(raw, client)
	if err != nil {
		return nil, 0, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	assigned, err := podutil.BuildGetPodsAssignedToNodeFunc(pods)
	if err != nil {
		return nil, 0, err
	}
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		features.EvictionsInBackground: {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		return nil, 0, err
	}
	options := evictions.NewOptions().
		WithPolicyGroupVersion("policy/v1").
		WithMaxPodsToEvictPerNode(policy.MaxNoOfPodsToEvictPerNode).
		WithMaxPodsToEvictPerNamespace(policy.MaxNoOfPodsToEvictPerNamespace).
		WithMaxPodsToEvictTotal(policy.MaxNoOfPodsToEvictTotal)
	evictor, err := evictions.NewPodEvictor(ctx, client, &events.FakeRecorder{}, pods, gates, options)
	if err != nil {
		return nil, 0, err
	}
	var deschedule, balance []func() error
	ready := make([]*corev1.Node, 0, len(c.nodes))
	for _, node := range c.nodes {
		if nodeutil.IsReady(node) {
			ready = append(ready, node)
		}
	}
	for index, config := range policy.Profiles {
		built, err := profile.NewProfile(ctx, config, pluginregistry.PluginRegistry,
			profile.WithClientSet(client),
			profile.WithSharedInformerFactory(factory),
			profile.WithPodEvictor(evictor),
			profile.WithGetPodsAssignedToNodeFnc(assigned),
			profile.WithProfileInstanceID(fmt.Sprint(index)),
		)
		if err != nil {
			return nil, 0, err
		}
		deschedule = append(deschedule, func() error {
			current = config.Name
			return built.RunDeschedulePlugins(ctx, ready).Err
		})
		balance = append(balance, func() error {
			current = config.Name
			return built.RunBalancePlugins(ctx, ready).Err
		})
	}
	if err := c.fill(factory); err != nil {
		return nil, 0, err
	}
	if len(ready) <= 1 {
		return evicted, 0, nil
	}
	took, err := measure(append(deschedule, balance...))
	return evicted, took, err
}

func ask(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: fmt.Sprintf("malformed question: %v", err)}
	}
	state, err := read(&asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	result := answer{}
	for number, policy := range asked.Policies {
		rounds, seconds := [][]eviction{}, []float64{}
		for range max(asked.Times, 1) {
			evicted, took, err := state.run(context.Background(), policy)
			if err != nil {
				return answer{Error: fmt.Sprintf("policies[%d]: %v", number, err)}
			}
			rounds, seconds = append(rounds, evicted), append(seconds, took.Seconds())
		}
		result.Evicted, result.Seconds = append(result.Evicted, rounds), append(result.Seconds, seconds)
	}
	return result
}

func answerAll() error {
	questions := bufio.NewScanner(os.Stdin)
	questions.Buffer(nil, longestQuestion)
	answers := json.NewEncoder(os.Stdout)
	for questions.Scan() {
		if err := answers.Encode(ask(questions.Bytes())); err != nil {
			return err
		}
	}
	return questions.Err()
}

func profiled(file string, call func() error) error {
	profile, err := os.Create(file)
	if err != nil {
		return err
	}
	defer profile.Close()
	if err := pprof.StartCPUProfile(profile); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return call()
}

func main() {
	cpuProfile := flag.String("cpuprofile", "", "`file` for a profile of the processor")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	descheduler.SetupPlugins()
	err := error(nil)
	if *cpuProfile == "" {
		err = answerAll()
	} else {
		err = profiled(*cpuProfile, answerAll)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

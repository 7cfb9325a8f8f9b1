// Command low_node_load asks koord-descheduler's plugin LowNodeLoad, for tests that compare dra-reserve's with it.
//
// Each line of the input is a question in JSON, each line of the output its answer, in the same order:
//
//	{"args": LowNodeLoadArgs, "nodes": [Node], "pods": [Pod], "metrics": [NodeMetric]}
//	{"evicted": [["ns/name", …], …]} or {"error": "…"}
//
// The plugin iterates over maps, and what it evicts depends on their order. So it is asked several times, and the
// answer has each distinct set of pods once, sorted. Pods with the label protected may not be evicted; the evictor
// accepts all others and removes nothing, as within one round of the descheduler. Metrics without an updateTime were
// reported now.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	koordclient "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned"
	koordfake "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned/fake"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/scheme"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/v1alpha2"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework/plugins/loadaware"
)

const (
	longestQuestion = 16 << 20
	protected       = "protected"
)

type question struct {
	Args    json.RawMessage           `json:"args"`
	Nodes   []*corev1.Node            `json:"nodes"`
	Pods    []*corev1.Pod             `json:"pods"`
	Metrics []*slov1alpha1.NodeMetric `json:"metrics"`
}

type answer struct {
	Evicted [][]string `json:"evicted,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// handle is what the plugin sees of the descheduler.
type handle struct {
	framework.Handle
	koordclient.Interface
	pods    map[string][]*corev1.Pod
	evicted []string
}

func (h *handle) Evictor() framework.Evictor { return h }

func (h *handle) GetPodsAssignedToNodeFunc() framework.GetPodsAssignedToNodeFunc {
	return func(node string, filter framework.FilterFunc) ([]*corev1.Pod, error) {
		var there []*corev1.Pod
		for _, pod := range h.pods[node] {
			if filter == nil || filter(pod) {
				there = append(there, pod)
			}
		}
		return there, nil
	}
}

func (h *handle) Filter(pod *corev1.Pod) bool {
	_, is := pod.Labels[protected]
	return !is
}

func (h *handle) PreEvictionFilter(*corev1.Pod) bool { return true }

func (h *handle) Evict(_ context.Context, pod *corev1.Pod, _ framework.EvictOptions) bool {
	h.evicted = append(h.evicted, pod.Namespace+"/"+pod.Name)
	return true
}

// plugin returns the plugin with its view of the cluster. It takes a tenth of a second, since the plugin waits for the
// informer of the metrics.
func (q *question) plugin(ctx context.Context, args *config.LowNodeLoadArgs) (framework.BalancePlugin, *handle, error) {
	client := koordfake.NewSimpleClientset()
	h := &handle{Interface: client, pods: map[string][]*corev1.Pod{}}
	for _, pod := range q.Pods {
		h.pods[pod.Spec.NodeName] = append(h.pods[pod.Spec.NodeName], pod)
	}
	for _, metric := range q.Metrics {
		if metric.Status.UpdateTime == nil {
			now := metav1.Now()
			metric.Status.UpdateTime = &now
		}
		if _, err := client.SloV1alpha1().NodeMetrics().Create(ctx, metric, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
	}
	plugin, err := loadaware.NewLowNodeLoad(args, h)
	if err != nil {
		return nil, nil, err
	}
	return plugin.(framework.BalancePlugin), h, nil
}

func (q *question) answer(ctx context.Context, times int) (found answer) {
	defer func() {
		if cause := recover(); cause != nil {
			found = answer{Error: fmt.Sprint("panic: ", cause)}
		}
	}()
	var versioned v1alpha2.LowNodeLoadArgs
	if err := json.Unmarshal(q.Args, &versioned); err != nil {
		return answer{Error: err.Error()}
	}
	scheme.Scheme.Default(&versioned)
	args := &config.LowNodeLoadArgs{}
	if err := scheme.Scheme.Convert(&versioned, args, nil); err != nil {
		return answer{Error: err.Error()}
	}
	plugin, h, err := q.plugin(ctx, args)
	if err != nil {
		return answer{Error: err.Error()}
	}
	distinct := map[string][]string{}
	for range times {
		h.evicted = []string{}
		if status := plugin.Balance(ctx, q.Nodes); status != nil && status.Err != nil {
			return answer{Error: status.Err.Error()}
		}
		sort.Strings(h.evicted)
		distinct[strings.Join(h.evicted, " ")] = h.evicted
	}
	keys := make([]string, 0, len(distinct))
	for key := range distinct {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		found.Evicted = append(found.Evicted, distinct[key])
	}
	return found
}

func main() {
	klog.InitFlags(nil)
	times := flag.Int("times", 20, "how often each question is asked")
	flag.Parse()
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), longestQuestion)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var asked question
		reply := answer{}
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			reply.Error = err.Error()
		} else {
			reply = asked.answer(context.Background(), *times)
		}
		if err := output.Encode(reply); err != nil {
			os.Exit(1)
		}
	}
}

// Command allocator asks kube-scheduler's own allocator of devices, for tests that compare dra-reserve's with it.
//
// Each line of the input is a question in JSON, each line of the output its answer, in the same order:
//
//	{"node": Node, "slices": [ResourceSlice], "classes": [DeviceClass], "claims": [ResourceClaim],
//	 "held": [DeviceRequestAllocationResult], "lists": false, "fractional": false}
//	{"allocations": [AllocationResult]}, {"refused": true} or {"error": "…"}
//
// held are the devices and shares that other claims have. The gates are those that are on by default in this version of
// Kubernetes; lists adds DRAListTypeAttributes, fractional adds DRAFractionalCapacityRange, which 1.37 has on only where
// --min-compatibility-version is 1.37 or more, and 1.38 always. An error ends a scheduling attempt for all nodes.
//
// go.mod and the build tag kubernetes_1_37 make the allocator of 1.37; kubernetes-1.38.mod makes that of 1.38.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	longestQuestion = 16 << 20
	patience        = 10 * time.Second // as kube-scheduler's, DRASchedulerFilterTimeout
)

type question struct {
	Node    *corev1.Node                                `json:"node"`
	Slices  []*resourceapi.ResourceSlice                `json:"slices"`
	Classes classes                                     `json:"classes"`
	Claims  []*resourceapi.ResourceClaim                `json:"claims"`
	Held    []resourceapi.DeviceRequestAllocationResult `json:"held"`
	Lists   bool                                        `json:"lists"`
	Fine    bool                                        `json:"fractional"`
}

type answer struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Refused     bool                           `json:"refused,omitempty"`
	Error       string                         `json:"error,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("device class %q does not exist", name)
}

// inUse returns what the results of other claims leave nobody else; admin access leaves everything.
func inUse(results []resourceapi.DeviceRequestAllocationResult) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: make(sharedDevices),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, result := range results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case result.AdminAccess != nil && *result.AdminAccess:
		case result.ShareID == nil:
			state.AllocatedDevices.Insert(id)
		default:
			noteShare(state.AllocatedSharedDeviceIDs, id, result)
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

func ask(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: fmt.Sprintf("malformed question: %v", err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	features := structured.Features{
		AdminAccess:             true,
		ConsumableCapacity:      true,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: fractional || asked.Fine,
		ListTypeAttributes:      asked.Lists,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
	cache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: asked.Lists})
	slices, err := forAllocator(asked.Slices)
	if err != nil {
		return answer{Error: err.Error()}
	}
	allocator, err := structured.NewAllocator(ctx, features, inUse(asked.Held), asked.Classes, slices, cache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	found, err := allocator.Allocate(ctx, asked.Node, asked.Claims)
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{Refused: true}
	case err != nil:
		return answer{Error: err.Error()}
	case len(found) < len(asked.Claims):
		return answer{Refused: true}
	}
	return answer{Allocations: found}
}

func main() {
	questions := bufio.NewScanner(os.Stdin)
	questions.Buffer(nil, longestQuestion)
	answers := json.NewEncoder(os.Stdout)
	for questions.Scan() {
		if err := answers.Encode(ask(questions.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := questions.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

//go:build kubernetes_1_37

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// fractional: DRAFractionalCapacityRange is on whatever is asked.
const fractional = false

// sharedDevices are the shares that claims have, up to 1.37.
type sharedDevices = sets.Set[structured.SharedDeviceID]

func noteShare(shared sharedDevices, id structured.DeviceID, share resourceapi.DeviceRequestAllocationResult) {
	shared.Insert(structured.MakeSharedDeviceID(id, share.ShareID))
}

// forAllocator returns slices as the allocator reads them: up to 1.37 as they are.
func forAllocator(slices []*resourceapi.ResourceSlice) ([]*resourceapi.ResourceSlice, error) {
	return slices, nil
}

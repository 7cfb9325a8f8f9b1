//go:build !kubernetes_1_37

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"
)

// fractional: DRAFractionalCapacityRange is on whatever is asked.
const fractional = true

// sharedDevices are the devices of which claims have shares.
type sharedDevices = sets.Set[structured.DeviceID]

func noteShare(shared sharedDevices, id structured.DeviceID, _ resourceapi.DeviceRequestAllocationResult) {
	shared.Insert(id)
}

// forAllocator returns slices as the allocator reads them since 1.38: converted.
func forAllocator(slices []*resourceapi.ResourceSlice) ([]*draapi.ResourceSlice, error) {
	converted := make([]*draapi.ResourceSlice, len(slices))
	for i, slice := range slices {
		converted[i] = &draapi.ResourceSlice{}
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, converted[i], nil); err != nil {
			return nil, err
		}
	}
	return converted, nil
}

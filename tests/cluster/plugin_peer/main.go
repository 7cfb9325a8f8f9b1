// plugin_peer: the least that a DRA driver in Go on the official helper does, as a peer of the kubelet plugin
// (bench/plugin.py --peer, and bench/running.py on a real kubelet).
//
// NodePrepareResources: the helper reads the claim; the driver checks that no device is prepared for another claim, adds
// the claim to its checkpoint (temporary file, fsync, rename, fsync of the directory), writes a CDI spec (temporary
// file, rename) and answers. NodeUnprepareResources removes the CDI spec, then the claim from the checkpoint, likewise
// synced. Devices are simulated: they are taken from the claim's allocation.
//
//	plugin_peer FOLDER
//
// FOLDER has access.json ({"url", "token"}) and server.pem, as bench.node's "api" writes them. For a real kubelet,
// access.json names its "node", the folders "plugins", "registry" and "cdi", and the number of "devices" to publish.
// Prints {"socket": …}.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

const driverName = "gpu.reserve.dra"

type preparedDevice struct {
	Request string   `json:"request"`
	Pool    string   `json:"pool"`
	Device  string   `json:"device"`
	CDI     []string `json:"cdi"`
}

type preparedClaim struct {
	UID       types.UID        `json:"uid"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Devices   []preparedDevice `json:"devices"`
}

type driver struct {
	folder, cdi string

	mutex    sync.Mutex
	prepared map[types.UID]*preparedClaim
	holders  map[string]types.UID // pool/device → claim
}

// checkpoint makes the current state durable. The caller holds the mutex.
func (d *driver) checkpoint() error {
	return replace(filepath.Join(d.folder, "checkpoint.json"), d.rendered(), 0o600, true)
}

func (d *driver) rendered() []byte {
	all := make([]*preparedClaim, 0, len(d.prepared))
	for _, each := range d.prepared {
		all = append(all, each)
	}
	content, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(content)
	return fmt.Appendf(nil, "{\"version\":1,\"checksum\":\"sha256:%s\",\"content\":%s}\n", hex.EncodeToString(sum[:]), content)
}

func replace(path string, body []byte, mode os.FileMode, sync bool) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err == nil && sync {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(draft, path); err != nil || !sync {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (d *driver) cdiPath(uid types.UID) string {
	return filepath.Join(d.cdi, fmt.Sprintf("%s-claim-%s.json", driverName, uid))
}

func (d *driver) writeCDI(claim *preparedClaim) error {
	spec := cdi.Spec{Version: "0.5.0", Kind: driverName + "/claim"}
	for number, device := range claim.Devices {
		edits := cdi.ContainerEdits{
			Env:         []string{fmt.Sprintf("GPU_DEVICE_%d=%s", number, device.Device)},
			DeviceNodes: []*cdi.DeviceNode{{Path: "/dev/" + device.Device, HostPath: "/dev/null"}},
		}
		spec.Devices = append(spec.Devices, cdi.Device{Name: fmt.Sprintf("%s-%d", claim.UID, number), ContainerEdits: edits})
	}
	body, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return replace(d.cdiPath(claim.UID), body, 0o644, false)
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	found := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	changed := false
	for _, claim := range claims {
		if _, known := d.prepared[claim.UID]; known {
			continue
		}
		made, err := d.hold(claim)
		if err != nil {
			found[claim.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		d.prepared[claim.UID] = made
		changed = true
	}
	if changed {
		if err := d.checkpoint(); err != nil {
			return nil, err
		}
	}
	for _, claim := range claims {
		made := d.prepared[claim.UID]
		if made == nil {
			continue
		}
		if err := d.writeCDI(made); err != nil {
			return nil, err
		}
		var devices []kubeletplugin.Device
		for _, each := range made.Devices {
			devices = append(devices, kubeletplugin.Device{
				Requests: []string{each.Request}, PoolName: each.Pool, DeviceName: each.Device, CDIDeviceIDs: each.CDI})
		}
		found[claim.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return found, nil
}

func (d *driver) hold(claim *resourceapi.ResourceClaim) (*preparedClaim, error) {
	made := &preparedClaim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
	for number, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		key := result.Pool + "/" + result.Device
		if holder, held := d.holders[key]; held && holder != claim.UID {
			return nil, fmt.Errorf("%s is prepared for claim %s", key, holder)
		}
		made.Devices = append(made.Devices, preparedDevice{Request: result.Request, Pool: result.Pool, Device: result.Device,
			CDI: []string{fmt.Sprintf("%s/claim=%s-%d", driverName, claim.UID, number)}})
	}
	for _, each := range made.Devices {
		d.holders[each.Pool+"/"+each.Device] = claim.UID
	}
	return made, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	found := make(map[types.UID]error, len(claims))
	changed := false
	for _, claim := range claims {
		found[claim.UID] = nil
		made := d.prepared[claim.UID]
		if made == nil {
			continue
		}
		if err := os.Remove(d.cdiPath(claim.UID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			found[claim.UID] = err
			continue
		}
		delete(d.prepared, claim.UID)
		for _, each := range made.Devices {
			delete(d.holders, each.Pool+"/"+each.Device)
		}
		changed = true
	}
	if changed {
		if err := d.checkpoint(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, msg, err)
}

func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func main() {
	root := os.Args[1]
	var access struct {
		URL, Token, Node, Plugins, Registry, CDI string
		Devices                                  int
	}
	raw, err := os.ReadFile(filepath.Join(root, "access.json"))
	must(err)
	must(json.Unmarshal(raw, &access))
	config := &rest.Config{Host: access.URL, BearerToken: access.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(root, "server.pem")}}
	client, err := kubernetes.NewForConfig(config)
	must(err)

	folder := filepath.Join(root, "peer")
	registry, specs, node := filepath.Join(folder, "registry"), filepath.Join(folder, "cdi"), "n1"
	if access.Node != "" {
		folder, registry, specs, node = filepath.Join(access.Plugins, driverName), access.Registry, access.CDI, access.Node
	}
	for _, each := range []string{folder, registry, specs} {
		must(os.MkdirAll(each, 0o755))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	plugin := &driver{folder: folder, cdi: specs,
		prepared: map[types.UID]*preparedClaim{}, holders: map[string]types.UID{}}
	helper, err := kubeletplugin.Start(ctx, plugin,
		kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(registry), kubeletplugin.PluginDataDirectoryPath(folder))
	must(err)
	if access.Devices > 0 {
		must(helper.PublishResources(ctx, published(node, access.Devices)))
	}
	line, err := json.Marshal(map[string]string{"socket": filepath.Join(folder, "dra.sock")})
	must(err)
	fmt.Println(string(line))
	<-ctx.Done()
	helper.Stop()
}

// published returns one pool of equal devices, in slices of as many as a slice may have.
func published(node string, count int) resourceslice.DriverResources {
	var pool resourceslice.Pool
	for first := 0; first < count; first += resourceapi.ResourceSliceMaxDevices {
		var slice resourceslice.Slice
		for number := first; number < min(count, first+resourceapi.ResourceSliceMaxDevices); number++ {
			slice.Devices = append(slice.Devices, resourceapi.Device{Name: fmt.Sprintf("cpu-%d", number)})
		}
		pool.Slices = append(pool.Slices, slice)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

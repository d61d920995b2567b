// gpuplugin is a real device plugin for GPUs that are not there: it registers nvidia.com/gpu on the kubelet's socket,
// hands out named UUIDs, and does to a container what NVIDIA's toolkit does: NVIDIA_VISIBLE_DEVICES and an nvidia-smi.
// Called as `nvidia-smi` it prints the GPUs that the container was given.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "windlass-gpu.sock"
	smiName  = "nvidia-smi"
)

// uuid names the GPU of a node by its index: the same node and index give the same name on every run.
func uuid(node string, index int) string {
	sum := sha256.Sum256([]byte(node + "/" + strconv.Itoa(index)))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
	tool    string
	stop    chan struct{}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.stop:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{
			Envs:   map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
			Mounts: []*api.Mount{{ContainerPath: "/usr/bin/" + smiName, HostPath: p.tool, ReadOnly: true}},
		})
	}
	return answer, nil
}

func register(directory string) error {
	connection, err := grpc.NewClient("unix://"+filepath.Join(directory, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: socket, ResourceName: resource})
	return err
}

// serve runs one registration's life: until the kubelet removes our socket (it restarted) or a signal comes.
func serve(directory string, p *plugin, signals <-chan os.Signal) (done bool, err error) {
	path := filepath.Join(directory, socket)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return false, err
	}
	p.stop = make(chan struct{})
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	defer func() { close(p.stop); server.Stop() }()
	if err := register(directory); err != nil {
		return false, err
	}
	log.Printf("registered %d %s", len(p.devices), resource)
	for {
		select {
		case <-signals:
			return true, nil
		case <-time.After(2 * time.Second):
			if _, err := os.Stat(path); err != nil {
				return false, nil
			}
		}
	}
}

func installTool(target string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	temporary := target + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, self); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(temporary, target)
}

func list(product string, uuids []string) {
	for index, id := range uuids {
		fmt.Printf("GPU %d: %s (UUID: %s)\n", index, product, id)
	}
}

func asTool() {
	given := os.Getenv("NVIDIA_VISIBLE_DEVICES")
	if len(os.Args) != 2 || (os.Args[1] != "-L" && os.Args[1] != "--list-gpus") {
		fmt.Fprintln(os.Stderr, "nvidia-smi: this stand-in of the test bed knows `nvidia-smi -L` only")
		os.Exit(1)
	}
	if !strings.HasPrefix(given, "GPU-") {
		fmt.Println("No devices were found")
		os.Exit(6)
	}
	list("NVIDIA L20", strings.Split(given, ","))
}

func main() {
	if filepath.Base(os.Args[0]) == smiName {
		asTool()
		return
	}
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node; part of every UUID")
	count := flag.Int("gpus", 8, "GPUs of this node")
	directory := flag.String("kubelet", "/var/lib/kubelet/device-plugins", "the kubelet's device plugin folder")
	tools := flag.String("tools", "/opt/windlass-gpu", "folder, the same on the node, for the stand-in nvidia-smi")
	print := flag.Bool("list", false, "print the GPUs of the node as `nvidia-smi -L` does, and end")
	flag.Parse()
	p := &plugin{tool: filepath.Join(*tools, smiName)}
	var uuids []string
	for index := range *count {
		uuids = append(uuids, uuid(*node, index))
		p.devices = append(p.devices, &api.Device{ID: uuids[index], Health: api.Healthy})
	}
	if *print {
		list("NVIDIA L20", uuids)
		return
	}
	if err := installTool(p.tool); err != nil {
		log.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for {
		done, err := serve(*directory, p, signals)
		if done {
			return
		}
		if err != nil {
			log.Printf("the kubelet did not take the registration: %v; trying again in 2 s", err)
			time.Sleep(2 * time.Second)
		}
	}
}

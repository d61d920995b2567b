// crictl answers what kind asks of it, `crictl inspecti IMAGE`, and lists a node's images for a person.
// The real cri-tools module is not on every module proxy; this stands on the same CRI API.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	socket  = "unix:///run/containerd/containerd.sock"
	timeout = 10 * time.Second
	none    = "<none>"
	usage   = "this node's crictl has two commands, `crictl images` and `crictl inspecti IMAGE`; for others use ctr -n k8s.io"
)

func inspectImage(ctx context.Context, service runtime.ImageServiceClient, name string) error {
	answer, err := service.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: name}})
	if err != nil {
		return err
	}
	if answer.Image == nil {
		return fmt.Errorf("no such image %q present", name)
	}
	status := map[string]any{"id": answer.Image.Id, "repoTags": answer.Image.RepoTags,
		"repoDigests": answer.Image.RepoDigests, "size": answer.Image.Size}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": status})
}

func listImages(ctx context.Context, service runtime.ImageServiceClient) error {
	answer, err := service.ListImages(ctx, &runtime.ListImagesRequest{})
	if err != nil {
		return err
	}
	return writeTable(os.Stdout, answer.Images)
}

// writeTable has a row for each tag, and one for an image without any.
func writeTable(out io.Writer, images []*runtime.Image) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tIMAGE ID\tSIZE MB")
	for _, image := range images {
		tags := image.RepoTags
		if len(tags) == 0 {
			tags = []string{none}
		}
		for _, tag := range tags {
			fmt.Fprintf(table, "%s\t%s\t%.1f\n", tag, image.Id, float64(image.Size)/1e6)
		}
	}
	return table.Flush()
}

func run(words []string) error {
	inspects := len(words) > 1 && words[0] == "inspecti"
	if !inspects && (len(words) != 1 || words[0] != "images") {
		return errors.New(usage)
	}
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	service := runtime.NewImageServiceClient(connection)
	if inspects {
		return inspectImage(ctx, service, words[len(words)-1])
	}
	return listImages(ctx, service)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crictl:", err)
		os.Exit(1)
	}
}

// A registry of images and charts that keeps its content in files; its only argument is the configuration.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	config, err := configuration.Parse(file)
	if err != nil {
		return err
	}
	made, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		return err
	}
	return made.ListenAndServe()
}

// Command structures prints how Go encodes the types of the API, which OpenAPI does not say: the Go type of each field,
// and whether it is left out when empty.
//
//	{"io.k8s.api.core.v1.PodSpec": {"nodeName": ["string", "empty", ""], …}, …}
//
// The second word is the option of the field's tag: "empty", "zero", or "always" for a field that is always written; the
// third names the embedded struct that the field comes from, since error texts do.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

type field [3]string

var marshaler = reflect.TypeFor[json.Marshaler]()

var found = map[string]map[string]field{}

// name is what OpenAPI calls a type: io.k8s.api.core.v1.Pod for k8s.io/api/core/v1.Pod.
func name(t reflect.Type) string {
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(append(parts, strings.ReplaceAll(rest, "/", "."), t.Name()), ".")
}

func walk(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		walk(t.Elem())
	case reflect.Struct:
		// What writes itself has no fields of its own: quantities, times, int-or-strings.
		if found[name(t)] == nil && !reflect.PointerTo(t).Implements(marshaler) {
			fields := map[string]field{}
			found[name(t)] = fields
			collect(t, fields, "")
		}
	}
}

func collect(t reflect.Type, fields map[string]field, within string) {
	for i := 0; i < t.NumField(); i++ {
		each := t.Field(i)
		tag := strings.Split(each.Tag.Get("json"), ",")
		if !each.IsExported() || tag[0] == "-" {
			continue
		}
		if tag[0] == "" && each.Anonymous {
			collect(each.Type, fields, strings.Trim(within+"."+each.Name, "."))
			continue
		}
		if tag[0] == "" {
			continue
		}
		omit := "always"
		for _, option := range tag[1:] {
			if option == "omitempty" && omit == "always" {
				omit = "empty"
			}
			if option == "omitzero" {
				omit = "zero"
			}
		}
		fields[tag[0]] = field{each.Type.String(), omit, within}
		walk(each.Type)
	}
}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	for _, t := range scheme.Scheme.AllKnownTypes() {
		walk(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}

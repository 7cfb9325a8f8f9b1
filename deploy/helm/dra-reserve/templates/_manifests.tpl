{{/*
The manifests of one file below files/, which are those of deploy/kustomize, deploy/kubelet-plugin and deploy/policies
themselves, with this release's labels and in its namespaces. So whatever is granted has one source, with its reasons
beside it. What is in Koordinator's namespace stays there: the ConfigMap of colocation has a fixed place.

Takes a dict: root, file; namespace, where the objects go (default: the release's); annotations to add; validationActions
of the policies' bindings, if they are not those of the file.
*/}}
{{- define "dra-reserve.manifests" -}}
{{- $root := .root }}
{{- $namespaces := dict "dra-reserve" $root.Release.Namespace "dra-reserve-nodes" $root.Values.kubeletPlugin.namespace.name }}
{{- $text := required (printf "chart: %s is missing: the chart was packed without the files that its links name" .file) ($root.Files.Get .file) }}
{{- $namespaced := list "Role" "RoleBinding" "ServiceAccount" "ResourceQuota" "NetworkPolicy" }}
{{- $accounts := "system:serviceaccount:" }}
{{- $text = $text | replace (print $accounts "dra-reserve-nodes:") (print $accounts "=nodes:") }}
{{- $text = $text | replace (print $accounts "dra-reserve:") (print $accounts $root.Release.Namespace ":") }}
{{- $text = $text | replace (print $accounts "=nodes:") (print $accounts $root.Values.kubeletPlugin.namespace.name ":") }}
{{- $text = $text | replace "'registry.k8s.io/pause:3.10'" (printf "'%s'" (default "registry.k8s.io/pause:3.10" $root.Values.config.placeholderImage)) }}
{{- range $document := regexSplit "(?m)^---[ ]*$" $text -1 }}
{{- $object := fromYaml $document }}
{{- if hasKey $object "Error" }}
{{- fail (printf "chart: %s: %s" $.file $object.Error) }}
{{- end }}
{{- if $object.kind }}
{{- $labels := merge (default dict $object.metadata.labels) (fromYaml (include "dra-reserve.labels" $root)) }}
{{- $_ := set $object.metadata "labels" $labels }}
{{- with $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (default dict $object.metadata.annotations) .) }}
{{- end }}
{{- if and $.validationActions (eq $object.kind "ValidatingAdmissionPolicyBinding") }}
{{- $_ := set $object.spec "validationActions" $.validationActions }}
{{- end }}
{{- if and (has $object.kind $namespaced) (ne (default "" $object.metadata.namespace) "koordinator-system") }}
{{- $_ := set $object.metadata "namespace" (default $root.Release.Namespace $.namespace) }}
{{- end }}
{{- range $subject := $object.subjects }}
{{- with $subject.namespace }}
{{- $_ := set $subject "namespace" (get $namespaces .) }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

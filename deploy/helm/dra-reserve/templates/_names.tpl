{{/* Names are fixed, as in deploy/kustomize: one controller a cluster. A second release is refused by Helm, which says
whose object is in its way. */}}

{{- define "dra-reserve.labels" -}}
{{- with .Values.commonLabels }}{{ toYaml . }}
{{ end -}}
app.kubernetes.io/name: dra-reserve
app.kubernetes.io/part-of: dra-reserve
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* What pods are selected by; never changes over the life of a release. Takes the component. */}}
{{- define "dra-reserve.selector" -}}
app.kubernetes.io/name: dra-reserve
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "dra-reserve.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* What is the same for all pods of ours; takes the section of values. */}}
{{- define "dra-reserve.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

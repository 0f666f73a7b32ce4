{{- /*
What all components share. Templates that are about one component take a dict: root (the chart's context), name (the
component, as in labels and names), values (the component's own).
*/ -}}

{{- define "rota.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rota.name" -}}
{{ include "rota.fullname" .root }}-{{ .name }}
{{- end -}}

{{- /* Cluster roles and their bindings are cluster-wide, so their names contain the release. */ -}}
{{- define "rota.clusterName" -}}
{{ .root.Release.Namespace }}:{{ include "rota.name" . }}
{{- end -}}

{{- /* Selects all pods of a release. */ -}}
{{- define "rota.instance" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rota.selector" -}}
{{ include "rota.instance" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "rota.labels" -}}
{{ include "rota.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "rota.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- define "rota.marksName" -}}
{{ include "rota.fullname" . }}-marks
{{- end -}}

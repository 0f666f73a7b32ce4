{{- /* The ServiceAccount of a component, its rights in the cluster and in its own namespace. */ -}}
{{- define "rota.rights" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "rota.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "rota.clusterName" . }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "rota.clusterName" . }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "rota.clusterName" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "rota.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- if .lease }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "rota.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
rules:
  # RBAC cannot limit create to a name.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .lease }}]
    verbs: [get, update]
  {{- with .own }}
  {{- . | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "rota.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "rota.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "rota.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- end -}}

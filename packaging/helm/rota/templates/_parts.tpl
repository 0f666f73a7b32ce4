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

{{- /* Roles and their bindings belong to the whole cluster: two releases must not take each other's. */ -}}
{{- define "rota.clusterName" -}}
{{ .root.Release.Namespace }}:{{ include "rota.name" . }}
{{- end -}}

{{- /* All pods of an installation. */ -}}
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

{{- /* A component runs as itself: an account, and what it may do in the cluster and in its own namespace. */ -}}
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
  # No right to create can be limited to a name.
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

{{- /* Some processes of one component, of which one or all work. Also takes args, ports, mounts and volumes (as text),
and reads: what they read at their start, and must be started again for when it changes. */ -}}
{{- define "rota.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "rota.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "rota.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "rota.selector" . | nindent 8 }}
        {{- with .root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        rota.dev/reads: {{ toYaml .reads | sha256sum | trunc 16 | quote }}
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "rota.name" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .name }}
          image: {{ include "rota.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- .args | nindent 12 }}
            - --http={{ .root.Values.listenHost }}:9464
            {{- with .values.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: metrics, containerPort: 9464, protocol: TCP}
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
          # A look at a large cluster may keep the process busy for some seconds; that is no reason to kill it.
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 10
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          {{- with .mounts }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
      {{- with .volumes }}
      volumes:
        {{- . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "rota.selector" $ | nindent 14 }}
        {{- end }}
      affinity:
        {{- if .root.Values.affinity }}
        {{- toYaml .root.Values.affinity | nindent 8 }}
        {{- else }}
        # Who looks after machines that are taken away had better not stand on one.
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              preference:
                matchExpressions:
                  {{- include "rota.stays" . | nindent 18 }}
        {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if gt (int .values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "rota.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "rota.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # One that does not get well must not keep its machine from being emptied.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "rota.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* By these labels spot machines are known; a machine that has none of them stays. */ -}}
{{- define "rota.stays" -}}
- {key: node.kubernetes.io/capacity, operator: NotIn, values: [spot]}
- {key: node.kubernetes.io/lifecycle, operator: NotIn, values: [spot]}
- {key: node-role.kubernetes.io/spot-worker, operator: DoesNotExist}
- {key: cluster.x-k8s.io/interruptible, operator: DoesNotExist}
- {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}
- {key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT]}
- {key: cloud.google.com/gke-spot, operator: NotIn, values: ["true"]}
- {key: cloud.google.com/gke-preemptible, operator: NotIn, values: ["true"]}
- {key: cloud.google.com/gke-provisioning, operator: NotIn, values: [spot, preemptible]}
- {key: kubernetes.azure.com/scalesetpriority, operator: NotIn, values: [spot]}
- {key: machine.openshift.io/interruptible-instance, operator: DoesNotExist}
- {key: spotinst.io/node-lifecycle, operator: NotIn, values: [spot]}
{{- end -}}

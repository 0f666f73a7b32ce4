{{- /*
A pod of one component. Also takes args, env, ports, mounts and volumes (as text); reads: what it reads at its start, and
must be started again for when it changes; and everywhere: an affinity, if it is on all such machines.
*/ -}}
{{- define "rota.pod" -}}
metadata:
  labels:
    {{- include "rota.selector" . | nindent 4 }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    rota.dev/reads: {{ toYaml .reads | sha256sum | trunc 16 | quote }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "rota.name" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- if .values.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
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
        {{- .args | nindent 8 }}
        - --http={{ if .values.hostNetwork }}127.0.0.1{{ else }}{{ .root.Values.listenHost }}{{ end }}:9464
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .env }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      ports:
        - {name: metrics, containerPort: 9464, protocol: TCP}
        {{- with .ports }}
        {{- . | nindent 8 }}
        {{- end }}
      # Reading a large cluster may keep the process busy for some seconds; the probe must not kill it then.
      livenessProbe:
        httpGet: {path: /livez, port: metrics{{ if .values.hostNetwork }}, host: 127.0.0.1{{ end }}}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: metrics{{ if .values.hostNetwork }}, host: 127.0.0.1{{ end }}}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- with .values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with .mounts }}
      volumeMounts:
        {{- . | nindent 8 }}
      {{- end }}
  {{- with .volumes }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .everywhere }}
  affinity:
    {{- .everywhere | nindent 4 }}
  # It runs as long as its node exists, whatever taints the node has.
  tolerations: [{operator: Exists}]
  {{- else }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "rota.selector" $ | nindent 10 }}
    {{- end }}
  affinity:
    {{- if .root.Values.affinity }}
    {{- toYaml .root.Values.affinity | nindent 4 }}
    {{- else }}
    # A component that handles reclaimed nodes should not run on one.
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          preference:
            matchExpressions:
              {{- include "rota.stays" . | trim | nindent 14 }}
    {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{- /* The Deployment of a component, with a PodDisruptionBudget if it has several replicas; see rota.pod. */ -}}
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
    {{- include "rota.pod" . | nindent 4 }}
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
  # A pod that is not ready must not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "rota.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* Labels that mark spot nodes, with their values; an empty list means any value. */ -}}
{{- define "rota.spotLabels" -}}
node.kubernetes.io/capacity: [spot]
node.kubernetes.io/lifecycle: [spot]
node-role.kubernetes.io/spot-worker: []
cluster.x-k8s.io/interruptible: []
karpenter.sh/capacity-type: [spot]
eks.amazonaws.com/capacityType: [SPOT]
cloud.google.com/gke-spot: ["true"]
cloud.google.com/gke-preemptible: ["true"]
cloud.google.com/gke-provisioning: [spot, preemptible]
kubernetes.azure.com/scalesetpriority: [spot]
machine.openshift.io/interruptible-instance: []
spotinst.io/node-lifecycle: [spot]
{{- end -}}

{{- /* Matches nodes without any of these labels. */ -}}
{{- define "rota.stays" -}}
{{- range $key, $values := include "rota.spotLabels" . | fromYaml }}
{{- if $values }}
- {key: {{ $key }}, operator: NotIn, values: {{ toJson $values }}}
{{- else }}
- {key: {{ $key }}, operator: DoesNotExist}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Matches nodes with one of these labels, or with a label of .Values.marks that means spot. */ -}}
{{- define "rota.onSpot" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- $labels := include "rota.spotLabels" . | fromYaml }}
      {{- range .Values.marks }}
      {{- if and (eq .means "spot") (eq .place "label") }}
      {{- $_ := set $labels .key (default (list) .values) }}
      {{- end }}
      {{- end }}
      {{- range $key, $values := $labels }}
      - matchExpressions:
          {{- if $values }}
          - {key: {{ $key }}, operator: In, values: {{ toJson $values }}}
          {{- else }}
          - {key: {{ $key }}, operator: Exists}
          {{- end }}
      {{- end }}
{{- end -}}

{{- define "windlass.name" -}}
{{- $chart := .Values.nameOverride | default "windlass" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- /* Values of earlier charts, refused with the name that they have now. */ -}}
{{- define "windlass.renamed" -}}
{{- if hasKey .Values "replicas" }}{{ fail "the value replicas is called replicaCount" }}{{ end -}}
{{- if hasKey .Values.image "pullSecrets" }}{{ fail "the value image.pullSecrets is called imagePullSecrets" }}{{ end -}}
{{- end -}}

{{- define "windlass.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "windlass.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: windlass-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "windlass.prefix" -}}
{{- with .Values.global.repository }}{{ printf "%s/" . }}{{ end -}}
{{- end -}}

{{- define "windlass.image" -}}
{{ include "windlass.prefix" . }}{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* An image that the operator gives to serving pods: (list ROOT REPOSITORY DIGEST). The operator adds the tag where no digest is. */}}
{{- define "windlass.served" -}}
{{ include "windlass.prefix" (index . 0) }}{{ index . 1 }}{{ with index . 2 }}@{{ . }}{{ end }}
{{- end -}}

{{/* The Lease of this release's operators. */}}
{{- define "windlass.lease" -}}
{{ include "windlass.name" . }}-operator
{{- end }}

{{- define "windlass.consoleSelector" -}}
app.kubernetes.io/name: windlass-console
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "windlass.consoleLabels" -}}
{{ include "windlass.consoleSelector" . }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/component: console
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "windlass.consoleImage" -}}
{{- $image := .Values.console.image -}}
{{ include "windlass.prefix" . }}{{ $image.repository }}{{ with $image.digest }}@{{ . }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* CIDRs from which the API server reaches pods, as JSON: the value, else the addresses of the cluster's API servers. */}}
{{- define "windlass.controlPlane" -}}
{{- $cidrs := .Values.console.networkPolicy.controlPlane -}}
{{- if not $cidrs -}}
{{- $slice := lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes" | default dict -}}
{{- $bits := ternary 128 32 (eq (get $slice "addressType") "IPv6") -}}
{{- range get $slice "endpoints" -}}
{{- range .addresses }}{{ $cidrs = append $cidrs (printf "%s/%d" . $bits) }}{{ end -}}
{{- end -}}
{{- end -}}
{{ toJson $cidrs }}
{{- end -}}

{{/* Namespaces of the license servers that the operator asks, as JSON; addresses outside the cluster have none. */}}
{{- define "windlass.licenseNamespaces" -}}
{{- $found := list -}}
{{- range .Values.license.addresses | default (list "http://windlass-license-server.kube-system.svc:10080") -}}
{{- $host := regexReplaceAll "^https?://([^/:]+).*$" . "${1}" -}}
{{- $parts := splitList "." $host -}}
{{- if and (ge (len $parts) 3) (eq (index $parts 2) "svc") }}{{ $found = append $found (index $parts 1) }}{{ end -}}
{{- end -}}
{{ $found | uniq | toJson }}
{{- end -}}

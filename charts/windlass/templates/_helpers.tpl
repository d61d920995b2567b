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

{{- define "windlass.name" -}}
{{- if contains "windlass" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-windlass" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
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
{{ include "windlass.prefix" . }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The Lease of this release's operators. */}}
{{- define "windlass.lease" -}}
{{ include "windlass.name" . }}-operator
{{- end }}

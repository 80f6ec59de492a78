# usage.bash: what the head of a bench or a crash test says is its usage. Sourced before it does anything: --help
# prints the head; an option that the head does not name is refused. So nobody who asks, or mistypes, runs it all.
usage_text=$(awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0")
for usage_option; do
	case $usage_option in
	--help)
		printf '%s\n' "$usage_text"
		exit
		;;
	-?*)
		[[ ! $usage_text =~ (^|[^[:alnum:]-])"$usage_option"([^[:alnum:]-]|$) ]] || continue
		echo "${0##*/}: unknown option $usage_option; --help shows the usage" >&2
		exit 64
		;;
	esac
done

# Starts and stops one server as it reads "start" and "stop", and answers each with a line.
# At the end of its input, however that came, it stops the server and removes the folder.
# File 3 is the lock of the machine's servers: held until this has ended, and not by the server.
serve=$1 venv=$2 port=$3 dir=$4 profiles=$5
shift 5
trap '' PIPE # nobody may be there to hear an answer; the server is to be stopped all the same
while read -r what; do
	case $what in
	start) bash "$serve" start "$venv" "$port" "$profiles" "$@" </dev/null 3>&- || echo "it ended" ;;
	stop) bash "$serve" stop "$venv" "$port" </dev/null 3>&- && echo stopped ;;
	esac
done
bash "$serve" stop "$venv" "$port"
rm -rf "$dir" "$venv/run/$port.log"

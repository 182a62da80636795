/* Preloaded into initdb, which does not go on before it knows its user's name, whatever it needs
 * that for: the superuser of the cluster is named by an option. */
#include <pwd.h>

static char name[] = "postgres";
static char nothing[] = "";
static char root[] = "/";

struct passwd *getpwuid(uid_t uid)
{
    static struct passwd entry;

    entry.pw_name = name;
    entry.pw_passwd = nothing;
    entry.pw_uid = uid;
    entry.pw_gid = (gid_t) uid;
    entry.pw_gecos = nothing;
    entry.pw_dir = root;
    entry.pw_shell = nothing;
    return &entry;
}

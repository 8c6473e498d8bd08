#include "ssh_failure.h"

#include <catch2/catch.hpp>

using namespace hgt;

// What OpenSSH 9.2 wrote in each case.

namespace {

const std::string kNoted =
    "Warning: Permanently added '[10.0.0.1]:2222' (ED25519) to the list of known hosts.\r\n";
const std::string kEnd = "kex_exchange_identification: Connection closed by remote host\r\n";

struct Case {
  std::string text;
  std::string why;
  std::string hint;  // part of it
};

}  // namespace

TEST_CASE("each way in which ssh fails is recognised and has its own hint") {
  const Case c = GENERATE(
      Case{"ssh: Could not resolve hostname a: Name or service not known\n",
           "ssh: Could not resolve hostname a: Name or service not known", "neither in DNS"},
      Case{"ssh: Could not resolve hostname a: Temporary failure in name resolution\n",
           "ssh: Could not resolve hostname a: Temporary failure in name resolution",
           "DNS server does not answer"},
      Case{"ssh: connect to host 10.0.0.1 port 22: Connection refused\n",
           "ssh: connect to host 10.0.0.1 port 22: Connection refused", "--ssh_port"},
      Case{"ssh: connect to host 10.0.0.1 port 22: Connection timed out\n",
           "ssh: connect to host 10.0.0.1 port 22: Connection timed out", "firewall"},
      Case{"ssh: connect to host 10.0.0.1 port 22: No route to host\n",
           "ssh: connect to host 10.0.0.1 port 22: No route to host", "ip route get"},
      Case{"Connection timed out during banner exchange\n",
           "Connection timed out during banner exchange", "no ssh server answers"},
      Case{kEnd, "kex_exchange_identification: Connection closed by remote host", "MaxStartups"},
      Case{"Host key verification failed.\n", "its host key is not known here",
           "confirm the host's key"},
      Case{"No ED25519 host key is known for a and you have requested strict checking.\n"
           "Host key verification failed.\n",
           "its host key is not known here", "confirm the host's key"},
      Case{"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
           "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:hae.\n"
           "Add correct host key in /home/me/.ssh/known_hosts to get rid of this message.\n"
           "Offending ED25519 key in /home/me/.ssh/known_hosts:7\n"
           "Host key for a has changed and you have requested strict checking.\n"
           "Host key verification failed.\n",
           "its host key has changed: it is not the one in /home/me/.ssh/known_hosts:7",
           "ssh-keygen -R"},
      Case{"root@a: Permission denied (publickey).\n", "root@a: Permission denied (publickey).",
           "ssh-copy-id"},
      Case{"Permissions 0644 for '/key' are too open.\nLoad key \"/key\": bad permissions\n"
           "root@a: Permission denied (publickey).\n",
           "root@a: Permission denied (publickey). (key \"/key\": bad permissions)", "chmod 600"},
      Case{"Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\n",
           "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
           "IdentitiesOnly"},
      Case{"ssh: connect to host 10.0.0.9 port 22: Connection refused\n" + kEnd,
           "its jump host or ProxyCommand fails: "
           "ssh: connect to host 10.0.0.9 port 22: Connection refused",
           "ssh -v a true"},
      Case{
          kEnd + "Connection closed by 10.0.0.9 port 22\r\n" + kEnd,
          "its jump host or ProxyCommand fails: Connection closed by 10.0.0.9 port 22",
          "the jump host's ssh server drops connections before the login: too many at once (MaxSt"},
      Case{"kex_exchange_identification: read: Connection reset by peer\r\n",
           "kex_exchange_identification: read: Connection reset by peer", "MaxStartups"},
      Case{kNoted + "root@b: Permission denied (publickey).\nConnection closed by UNKNOWN port "
                    "65535\n",
           "its jump host or ProxyCommand fails: root@b: Permission denied (publickey).",
           "ssh -v a true"},
      Case{kNoted +
               "channel 0: open failed: connect failed: No route to host\n"
               "stdio forwarding failed\n" +
               kEnd,
           "its jump host cannot reach it: connect failed: No route to host", "try from there"},
      Case{"Connection closed by UNKNOWN port 65535\n",
           "its jump host or ProxyCommand fails: Connection closed by UNKNOWN port 65535",
           "ssh -v a true"},
      Case{"/root/.ssh/config: line 158: Bad configuration option: garbage\n"
           "/root/.ssh/config: terminating, 1 bad configuration options\n",
           "/root/.ssh/config: line 158: Bad configuration option: garbage", "remove the line"},
      Case{"this host cannot run hgtrain: libssl.so.3 is missing\n",
           "this host cannot run hgtrain: libssl.so.3 is missing", "scripts/package"},
      Case{"this host cannot run hgtrain: /root/.cache/hgtrain/1/hgtrain: Permission denied\n",
           "this host cannot run hgtrain: /root/.cache/hgtrain/1/hgtrain: Permission denied",
           "noexec"},
      Case{"the program cannot be sent: mkdir: cannot create directory: Permission denied\n",
           "the program cannot be sent: mkdir: cannot create directory: Permission denied",
           "150 MB"},
      Case{"there is no program /hgtrain on this host\n",
           "there is no program /hgtrain on this host", "at the same path"},
      Case{"hgtrain: error: the GPU driver has not answered for 90 s\n  hint: look at dmesg\n",
           "hgtrain: error: the GPU driver has not answered for 90 s", ""},
      Case{"Could not chdir to home directory /nonexistent: No such file or directory\n", "", ""},
      Case{"something else\n", "something else", ""}, Case{"", "", ""}, Case{kNoted, "", ""});
  CHECK(why_ssh_ended(c.text) == c.why);
  const std::string hint = hint_for_ssh({.name = "a"}, c.why);
  CHECK_THAT(hint, Catch::Contains(c.hint));
  CHECK(hint.empty() == c.hint.empty());
}

TEST_CASE("a login shell that starts nothing has a hint of its own") {
  CHECK_THAT(hint_for_ssh({.name = "a"}, kTooMuchNoise), Catch::Contains("~/.bashrc"));
  CHECK_THAT(hint_for_ssh({.name = "a"}, kNoWord), Catch::Contains("`ssh a true; echo $?`"));
  CHECK_THAT(hint_for_ssh({.name = "a"}, std::string(kNoAnswer) + " 30 s"),
             Catch::Contains("may wait for input: `ssh a true` must end"));
  CHECK_THAT(hint_for_ssh({.name = "a"}, "its login shell starts no program, and says: no"),
             Catch::Contains("chsh"));
}

TEST_CASE("localhost among other hosts can do without an ssh server") {
  CHECK_THAT(
      hint_for_ssh({.name = "localhost"},
                   "ssh: connect to host localhost port 22: Connection refused"),
      Catch::Contains("the others cannot reach it by this name") && Catch::Contains("--no_ssh"));
}

TEST_CASE("what to type by hand has the host's user and port") {
  CHECK_THAT(hint_for_ssh({.name = "far", .user = "me", .ssh_port = 2222},
                          "Permission denied (publickey)."),
             Catch::Contains("`ssh -p 2222 -l me far true`"));
}

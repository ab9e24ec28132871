# The browser that the tests of the page run in; sourced after tools/environment.sh, never run.
#
#   browser_ready    Chromium and its driver on PATH; installed where apt-get can, else the end

browser_found() {
    type -P chromedriver >/dev/null && { type -P chromium || type -P chromium-browser || type -P google-chrome; } >/dev/null
}

browser_ready() {
    browser_found || locked install_browser
}

install_browser() {
    browser_found && return # installed by the start that we waited for
    if [ "$(id -u)" != 0 ] || ! type -P apt-get >/dev/null; then
        fail "the tests of the page need Chromium and its driver on PATH; install them, for example  apt-get install chromium chromium-driver"
    fi
    say "setting up: installing chromium (a minute, 400 MB) ..."
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver; } \
        >"$CACHE/setup.log" 2>&1 || ! browser_found; then
        setup_failed "Chromium could not be installed" "Install Chromium and its driver (chromedriver) so that both are on PATH."
    fi
}

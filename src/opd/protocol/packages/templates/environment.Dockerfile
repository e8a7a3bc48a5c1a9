# What the explorer sees. OPD_IMAGE is the site's own image: Python with opd @@version@@ and the torch that fits its GPU.
ARG OPD_IMAGE=opd:@@version@@
FROM ${OPD_IMAGE}

# The installed opd holds questions and the evaluator; what is explored is the copy in the workspace.
RUN python -m pip uninstall --yes opd
RUN useradd --create-home --uid 1000 @@explorer@@

COPY --chown=@@explorer@@ workspace/ @@workspace@@/
WORKDIR @@workspace@@
USER @@explorer@@

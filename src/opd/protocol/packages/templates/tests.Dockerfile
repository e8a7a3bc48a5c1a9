# What judges: the install, and the package's own copy of the base. Nothing of the explorer's image is in it.
ARG OPD_IMAGE=opd:@@version@@
FROM ${OPD_IMAGE}

COPY . /tests/
WORKDIR /

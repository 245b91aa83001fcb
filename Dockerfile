# One image for every process of Tandem; docker-compose.yml says which command each service runs.

FROM node:24-bookworm-slim AS console
WORKDIR /build
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend/ ./
RUN npm run build

FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 1000 tandem && mkdir /data /models && chown tandem /data /models
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY manage.py ./
COPY platform/ platform/
COPY inference/ inference/
COPY --from=console /build/dist/ frontend/dist/
ENV PYTHONPATH=/app/platform:/app \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=controlplane.config.settings \
    TANDEM_DATA=/data
USER tandem
VOLUME /data
